"""The engine measured by itself: identical sides, planted differences, planted memory, another timer.

command: the door. plan: the cases, in order. planted: the pairs whose truth is known. measure: from a
case to what is stored of it. noise, timer: the other processes. stored: what is kept, and where.
page: the report.
"""
