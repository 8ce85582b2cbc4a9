"""What is stored of a run, and how: one file a run, a line for whatever was learnt, appended and synced.

`record` holds the data, `fields` the types of what is stored and their conversion from JSON, `json_line` one line of
a file, `store` the files. Nothing here calculates, and nothing words a report.
"""
