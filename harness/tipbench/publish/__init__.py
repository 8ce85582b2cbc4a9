"""Markdown pages on a team's wiki: git wikis, MediaWiki, DokuWiki, and, experimental, Confluence.

`pages` makes the pages of what `redaction` lets through, `send` writes what differs, and one file a wiki does the rest:
`tipbench.publish.wiki.Wiki` says what it has to do.
"""
