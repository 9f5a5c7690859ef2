"""The files of a project at one moment, stored by git, which runs confined. The repository's configuration can't make
git run a program, except during a commit or a push that was requested by a client (``Git.as_person``).
"""
