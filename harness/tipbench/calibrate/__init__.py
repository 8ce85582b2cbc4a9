"""The engine measured by itself, on what is known.

pairs/: a folder of pairs whose truth is known. command: ordinary runs of them, and their page. findings: what is
known beside what was said. page: the report.
"""
