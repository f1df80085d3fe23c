import { execFileSync } from 'node:child_process'
import { lstatSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { makeLayer } from './make-image.ts'

const DPKG = '/var/lib/dpkg'
/** Where everything is whose directory has been merged into /usr. */
const TOP_LINKS = ['/bin', '/sbin', '/lib', '/lib64']
/** Not those of this host. */
const USERS = [
  { path: 'etc/passwd', content: 'root:x:0:0:root:/root:/bin/bash\n' },
  { path: 'etc/group', content: 'root:x:0:\nshadow:x:42:\n' },
  { path: 'etc/shadow', content: 'root:*:19000:0:99999:7:::\n', mode: 0o640, gid: 42 },
  { path: 'etc/gshadow', content: 'root:*::\nshadow:*::\n', mode: 0o640, gid: 42 },
]

/**
 * The layers of an image of a Debian of this host's own packages: those that every Debian has, those that are named,
 * and all that they need, with the database of dpkg.
 */
export function debianLayers(more: readonly string[]): [root: Buffer, database: Buffer] {
  const packages = withDependencies(more)
  const files = packages.flatMap((name) => run('dpkg-query', ['-L', name]).split('\n'))
  const info = execFileSync('find', [`${DPKG}/info`, '-type', 'f'], { encoding: 'utf8' }).split('\n')
  const beginnings = packages.flatMap((name) => [`${name}.`, `${name}:`])
  const ofPackages = info.filter((path) => beginnings.some((name) => basename(path).startsWith(name)))
  const directories = [...TOP_LINKS, DPKG, `${DPKG}/info`, `${DPKG}/info/format`, `${DPKG}/updates`]
  const paths = new Set(
    [...directories, ...files, ...ofPackages].filter((path) => path.startsWith('/')).flatMap(inRoot),
  )
  const root = mkdtempSync(join(tmpdir(), 'dormouse-debian-'))
  try {
    const list = join(root, 'list')
    writeFileSync(list, [...paths].sort().join('\n'))
    const options = ['--numeric-owner', '--no-recursion', '--mtime=@1700000000', '-T', list]
    const layer = execFileSync('tar', ['-C', '/', ...options, '-cf', '-'], { maxBuffer: 2 ** 30 })
    const status = run('dpkg-query', ['-s', ...packages])
    return [layer, makeLayer([...USERS, { path: 'var/lib/dpkg/status', content: status }])]
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

/** The path below the root, through the links of merged directories. */
function inRoot(path: string): string[] {
  const real = path === '/.' ? '/' : join(safeReal(dirname(path)), basename(path))
  if (real === '/') return []
  // Documentation may be left out on this host.
  return lstatSync(real, { throwIfNoEntry: false }) === undefined ? [] : [real.slice(1)]
}

function safeReal(directory: string): string {
  return lstatSync(directory, { throwIfNoEntry: false }) === undefined ? directory : realpathSync(directory)
}

function withDependencies(more: readonly string[]): string[] {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query has fields like that.
  const format = '${Package}\t${Essential}\t${Pre-Depends}, ${Depends}\n'
  const installed = new Map(
    run('dpkg-query', ['-W', '-f', format])
      .split('\n')
      .map((line) => {
        const [name = '', essential, needs = ''] = line.split('\t')
        // Of alternatives, those that are installed.
        const names = needs.split(/[,|]/).map((one) => one.trim().replace(/[ (:].*$/, ''))
        return [name, { isEssential: essential === 'yes', needs: names }] as const
      }),
  )
  const essential = [...installed].filter(([, { isEssential }]) => isEssential).map(([name]) => name)
  const found = new Set([...essential, ...more])
  // Grows while it is read.
  for (const name of found)
    for (const other of installed.get(name)?.needs ?? []) if (installed.has(other)) found.add(other)
  found.delete('')
  return [...found].sort()
}

function run(program: string, args: readonly string[]): string {
  return execFileSync(program, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
}
