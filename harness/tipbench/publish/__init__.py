"""Reports and comparisons on a team's wiki: git wikis, MediaWiki, DokuWiki, and, experimental, Confluence.

One file a wiki, and one for its markup; `http_wiki` holds what the three over HTTP share. What may leave the machine is
decided in `allowed`, for all of them alike, and everything else of this room works on what it let through.
"""
