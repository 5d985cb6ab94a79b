"""The commands of `wirespeed`, one a file; a folder is a group of commands, such as `wirespeed memory`.

Each file has `app`, which `wirespeed.cli` puts together; `Options`, all that the command line says as one frozen
dataclass; and `answer`, which does what it says and returns the exit code. `options` has the options that several
commands have, `fields` makes options of a dataclass's fields, `output` prints, and `exits` has the exit codes.
"""
