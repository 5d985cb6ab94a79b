"""Real programs: started, watched, measured by the CPU time of their polling thread, and ended with their children."""
