import { execFileSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Debian's packages that benchmarks compare with or measure with: the program or the Python module of each. */
const PACKAGES = {
  'busybox-static': { program: 'busybox' },
  'docker-registry': { program: 'docker-registry' },
  'linux-perf': { program: 'perf' },
  'nats-server': { program: 'nats-server' },
  'python3-ipykernel': { module: 'ipykernel' },
  'python3-jupyter-client': { module: 'jupyter_client' },
  skopeo: { program: 'skopeo' },
  wrk: { program: 'wrk' },
}

/** Ends the program if one of these packages is missing, before anything is measured: no row goes without its control. */
export function requirePackages(...names) {
  const missing = names.filter((name) => !isInstalled(PACKAGES[name]))
  if (missing.length === 0) return
  console.error(
    `This benchmark needs packages that are missing. Run \`apt-get install ${missing.join(' ')}\`.`,
  )
  process.exit(1)
}

function isInstalled({ program, module }) {
  return program === undefined ? hasModule(module) : hasProgram(program)
}

function hasProgram(name) {
  return process.env.PATH.split(delimiter).some((directory) => {
    try {
      accessSync(join(directory, name), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** Of Debian's Python: another one that comes first in PATH does not see Debian's packages. */
function hasModule(name) {
  try {
    execFileSync('/usr/bin/python3', ['-c', `import ${name}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
