"""The files of a project at one moment, kept by git, which runs confined. The repository's configuration can't make it
run a program, except during a commit or a push that a client has requested (``Git.as_person``)."""
