"""Reports and comparisons on a team's wiki: git wikis, MediaWiki, DokuWiki, Confluence."""
