"""The files of a project at one moment, kept by git, which runs confined and without the repository's configuration."""
