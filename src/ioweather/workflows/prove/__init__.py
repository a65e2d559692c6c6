"""`doctor --prove`: causes are planted on a person's own disk, and what ioweather says of them is counted.

`plan` has the causes, `ground` the files and what is done to them, `measure` the runs and the sensors beside them,
`answers` what is said of what was measured, `matrix` the answers against what was planted. Only `matrix` sees both.
"""
