"""A person's own job: which tips it can follow, what each brings there, and the page that says so."""
