"""What is stored of a run, and how: one file for each run, with one line for each new result, appended and synced.

`record` defines the data, `fields` the types of stored fields and their conversion from JSON, `json_line` the JSON of
one line, `lines` the lines after the header, `store` the files. Nothing here calculates or writes text for a report.
"""
