"""A page on loopback: sliders for what matters, answered by closed forms at once and by short runs behind.

`place` is a scenario and its controls, `forms` answers from profiles, `runs` refines, `talk` ties them for a page, and
`server` is HTTP. What the page looks like is the report's: `wirespeed.report.live`.
"""
