import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { testDataDir } from '../test-data-dir.ts'

/** What an image of this host's Python does not need. */
const LEFT_OUT =
  /\/(test|idlelib|lib2to3|tkinter|ensurepip|config-[^/]*|EXTERNALLY-MANAGED|sitecustomize\.py)$/
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
const SITE = 'usr/lib/python3/dist-packages'

/** Describes the host's Python: it says itself where it is. */
const DESCRIBE = `
import glob, json, os, sys, sysconfig
stdlib = sysconfig.get_path("stdlib")
print(json.dumps({"program": os.path.realpath(sys.executable), "stdlib": stdlib,
    "version": "%d.%d" % sys.version_info[:2], "modules": glob.glob(stdlib + "/lib-dynload/*.so")}))
`

interface HostPython {
  readonly program: string
  readonly stdlib: string
  readonly version: string
  readonly modules: readonly string[]
}

/** Debian's Python of this host, which need not be the version of the template `python`. */
export function describeHostPython(): HostPython {
  return JSON.parse(execFileSync('/usr/bin/python3', ['-I', '-S', '-c', DESCRIBE], { encoding: 'utf8' }))
}

/** A layer with the host's Python, the libraries that it needs, and pip. */
export function pythonLayer({ program, stdlib, version, modules }: HostPython): Buffer {
  return pack((root) => {
    copyWithLibraries(root, program, modules)
    cpSync(stdlib, join(root, stdlib), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => !LEFT_OUT.test(path),
    })
    // Debian's pip has no certificates of its own.
    mkdirSync(join(root, dirname(CERTIFICATES)), { recursive: true })
    cpSync(realpathSync(CERTIFICATES), join(root, CERTIFICATES))
    const pip = join(testDataDir, 'templates/python/current/rootfs', SITE, 'pip')
    cpSync(realpathSync(pip), join(root, SITE, 'pip'), { recursive: true })
    writeFileSync(join(root, SITE, 'of_the_image.py'), `version = "${version}"\n`)
    // A Python that has started does not look into a directory that pip makes later.
    for (const path of ['bin', `lib/python${version}/dist-packages`])
      mkdirSync(join(root, 'usr/local', path), { recursive: true })
    execFileSync('ln', ['-s', program, join(root, 'usr/local/bin/python3')])
  })
}

/** A layer with the Node.js that runs the tests, and its npm. */
export function nodeLayer(): Buffer {
  const npm = dirname(dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())))
  return pack((root) => {
    copyWithLibraries(root, process.execPath, [], '/usr/local/bin/node')
    cpSync(npm, join(root, 'usr/local/lib/npm'), { recursive: true, dereference: true })
    writeFileSync(
      join(root, 'usr/local/bin/npm'),
      '#!/bin/sh\nexec node /usr/local/lib/npm/bin/npm-cli.js "$@"\n',
      { mode: 0o755 },
    )
  })
}

function copyWithLibraries(root: string, program: string, modules: readonly string[], to = program): void {
  const listed = execFileSync('ldd', [program, ...modules], { encoding: 'utf8' })
  const libraries = new Set([...listed.matchAll(/(?:=>\s)?(\/\S+)\s\(0x/g)].map(([, path = '']) => path))
  for (const [from, into] of [[program, to], ...[...libraries].map((path) => [path, path])] as const) {
    mkdirSync(dirname(join(root, into)), { recursive: true })
    cpSync(realpathSync(from), join(root, into))
  }
}

function pack(fill: (root: string) => void): Buffer {
  const root = mkdtempSync(join(tmpdir(), 'dormouse-layer-'))
  try {
    fill(root)
    const options = ['--owner=0', '--group=0', '--sort=name', '--mtime=@1700000000']
    return execFileSync('tar', ['-C', root, ...options, '-cf', '-', '.'], { maxBuffer: 2 ** 30 })
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}
