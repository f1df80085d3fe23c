import { chrootShifted } from '../template/shifted-root.ts'

/** The files of a template that make up the runtime, as absolute paths inside it. */
export interface RuntimeFiles {
  readonly loader: string
  readonly python: string
  readonly bash: string
  /** The directory of the standard library. */
  readonly stdlib: string
  readonly libraries: readonly string[]
  /** Packages outside the standard library that IPython needs: directories and modules. */
  readonly packages: readonly string[]
}

/** Runs in the template. Its ldd and its imports know best what Python and IPython need. */
const PROGRAM = `
import glob, importlib.util, json, os, subprocess, sys, sysconfig
import IPython.core.interactiveshell, IPython.core.completer, IPython.terminal.embed
stdlib = sysconfig.get_path("stdlib")
python, bash = os.path.realpath(sys.executable), os.path.realpath("/bin/bash")
extensions = [path for path in glob.glob(stdlib + "/lib-dynload/*.so") if "_tkinter" not in path]
output = subprocess.run(["ldd", python, bash, *extensions], stdout=subprocess.PIPE, check=True, text=True).stdout
lines = [line.split() for line in output.splitlines() if line.startswith("\\t")]
libraries = {words[0]: words[2] for words in lines if len(words) > 2 and words[1] == "=>" and words[2].startswith("/")}
loader = next(words[0] for words in lines if words[0].startswith("/lib"))
directory = os.path.dirname(next(iter(libraries.values())))
for extra in ("libgcc_s.so.1",):
    if os.path.exists(os.path.join(directory, extra)):
        libraries[extra] = os.path.join(directory, extra)
tops = {name.partition(".")[0] for name in sys.modules}
packages = {os.path.dirname(importlib.util.find_spec("matplotlib_inline").origin)}
# IPython imports these in older versions of Python, which images have.
tops |= {"typing_extensions", "exceptiongroup", "ptyprocess", "pexpect"}
for top in tops:
    spec = importlib.util.find_spec(top) if top not in sys.modules else None
    path = getattr(sys.modules.get(top), "__file__", None) or getattr(spec, "origin", None)
    if path and "/dist-packages/" in path and top != "_distutils_hack":
        packages.add(os.path.dirname(path) if os.path.basename(path) == "__init__.py" else path)
print(json.dumps({"loader": os.path.realpath(loader), "python": python, "bash": bash, "stdlib": stdlib,
    "libraries": sorted(libraries.values()), "packages": sorted(packages)}, indent=1))
`

/** Pre: root of the host built the template. */
export async function listRuntime(rootfs: string): Promise<RuntimeFiles> {
  const { stdout } = await chrootShifted(
    rootfs,
    ['python3', '-I', '-B', '-c', PROGRAM],
    'listing the runtime',
  )
  return JSON.parse(stdout)
}
