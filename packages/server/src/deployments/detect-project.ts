import { DormouseError } from '@dormouse/contracts'
import type { TemplateStep } from '@dormouse/contracts/http'

export interface DetectedProject {
  /** The template to build on. */
  readonly from: string
  readonly steps: readonly TemplateStep[]
  /** Undefined: the caller must say. */
  readonly start: string | undefined
}

const DIRECTORY = '/app'
/** Copies all files of a folder, and starts there. */
export const COPY_ALL: readonly TemplateStep[] = [
  { copy: ['.'], to: `${DIRECTORY}/` },
  { workdir: DIRECTORY },
]
/**
 * A project without a build system is no package, only a list of dependencies beside its programs. The log of the build
 * shows the first line.
 */
const INSTALL_PYPROJECT = `# install what pyproject.toml names
python3 -c '
import subprocess, sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
what = ["."] if "build-system" in project else project.get("project", {}).get("dependencies", [])
if what:
    sys.exit(subprocess.call(["pip", "install", "--no-cache-dir", *what]))
'`
const PYTHON_PROGRAMS = ['main.py', 'app.py', 'server.py']

/** Says how to build and start what is in a folder. Throws `invalid_argument` when it does not know. */
export function detectProject(paths: ReadonlySet<string>, port: number): DetectedProject {
  if (paths.has('package.json')) {
    const install = paths.has('package-lock.json') ? 'npm ci --omit=dev' : 'npm install --omit=dev'
    return { from: 'node', steps: [...COPY_ALL, { run: install }], start: 'npm start' }
  }
  const main = PYTHON_PROGRAMS.find((path) => paths.has(path))
  const start = main && `python3 ${main}`
  if (paths.has('pyproject.toml'))
    return { from: 'python', steps: [...COPY_ALL, { run: INSTALL_PYPROJECT }], start }
  if (paths.has('requirements.txt')) {
    const run = 'pip install --no-cache-dir -r requirements.txt'
    return { from: 'python', steps: [...COPY_ALL, { run }], start }
  }
  if (start !== undefined) return { from: 'python', steps: COPY_ALL, start }
  if (paths.has('index.html'))
    return { from: 'python', steps: COPY_ALL, start: `python3 -m http.server ${port}` }
  // A failed version keeps the message alone.
  throw new DormouseError(
    'invalid_argument',
    'The files do not say how to build and start them. Add a Dockerfile, package.json, pyproject.toml, ' +
      'requirements.txt, main.py or index.html, or name a `template` or an `image`.',
    { details: { field: 'context' } },
  )
}
