"""The collector against agents: polls that were missed, how late the others began, what it took.

`agents` starts what is polled, `runs` one collector as a whole process, `section` makes the table of the results.
"""
