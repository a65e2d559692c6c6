# Spack package: copy it to var/spack/repos/<repository>/packages/py_ioweather/package.py.
# A test compares it with pyproject.toml.

from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyIoweather(PythonPackage):
    """The weather of your storage: how slow it is now, was it your job or the system, and what
    the climate of the facility is."""

    license("BSD-3-Clause")

    # A release names its source distribution here (`pypi = ...`) with a checksum; until then, a
    # checkout: `spack develop --path CHECKOUT py-ioweather@main`.
    version("main", branch="main")

    variant("dask", default=False, description="Work on the nodes of a cluster")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling@1.21:", type="build")
    depends_on("py-click@8.1:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-scipy@1.11:", type=("build", "run"))
    depends_on("py-duckdb@1.3:", type=("build", "run"))
    depends_on("py-deltalake@1.6.6:", type=("build", "run"))
    depends_on("py-arro3-core@0.5:", type=("build", "run"))
    depends_on("py-arro3-io@0.5:", type=("build", "run"))
    depends_on("py-vl-convert-python@1.7:", type=("build", "run"))
    depends_on("py-h5py@3.10:", type=("build", "run"))
    depends_on("py-zlib-ng@0.4:", type=("build", "run"))
    depends_on("py-tzdata@2024.1:", type=("build", "run"))
    depends_on("py-fastapi@0.110:", type=("build", "run"))
    depends_on("py-uvicorn@0.27:", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type=("build", "run"))

    with when("+dask"):
        depends_on("py-dask@2024.4.1:", type=("build", "run"))
        depends_on("py-distributed@2024.4.1:", type=("build", "run"))
