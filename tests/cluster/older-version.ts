import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const repo = fileURLToPath(new URL('../../', import.meta.url))
const modules = join(repo, 'node_modules')

/**
 * The version that tests upgrade from: the first one whose hosts fetch builds and tools from each other. Replace it when
 * the state of the cluster gets another format: see docs/decisions/0254-upgrades-are-tested-with-an-earlier-commit.md.
 */
const COMMIT = 'cc48f73370930e2b2c98568ace7d3426cfe59355'
const PARTS = [
  'packages',
  'package.json',
  'tsconfig.base.json',
  'tsconfig.json',
  'tests/server/serve.mjs',
  'setup',
]
export const OLDER = '0.0.9'

/** False in sources that were unpacked without Git, or cloned without earlier commits. */
export const HAS_HISTORY = existsSync(join(repo, '.git')) && !existsSync(join(repo, '.git/shallow'))

/** Builds the older version from the history of this repository, once. Returns its server program. */
export async function buildOlderVersion(): Promise<string> {
  const place = join(modules, '.cache', `dormouse-version-${COMMIT}`)
  if (!existsSync(place)) {
    await mkdir(join(modules, '.cache'), { recursive: true })
    // Another run of the tests may be doing the same.
    const made = await mkdtemp(`${place}-`)
    try {
      await unpack(made)
      await linkModules(made)
      await compile(made)
      await rename(made, place).catch((error: unknown) => {
        if (!existsSync(place)) throw error
      })
    } finally {
      await rm(made, { recursive: true, force: true })
    }
  }
  return join(place, 'tests/server/serve.mjs')
}

async function unpack(into: string): Promise<void> {
  // The tests run as root, also in a checkout of somebody else.
  const git = ['-c', 'safe.directory=*', '-C', repo]
  const archive = join(into, 'sources.tar')
  await run('git', [...git, 'archive', '--output', archive, COMMIT, ...PARTS]).catch((cause: unknown) => {
    throw new Error(`this checkout lacks commit ${COMMIT}`, { cause })
  })
  await run('tar', ['-xf', archive, '-C', into])
  await rm(archive)
  const about = join(into, 'packages/server/package.json')
  const described = JSON.parse(await readFile(about, 'utf8'))
  await writeFile(about, JSON.stringify({ ...described, version: OLDER }))
  // Guest tools are told apart by their content, which differs between almost all versions.
  await appendFile(join(into, 'packages/guest/python/dormouse_agent/agent.py'), `# ${OLDER}\n`)
}

/** Its own packages, and the dependencies of this version. */
async function linkModules(into: string): Promise<void> {
  const own = join(into, 'node_modules')
  await mkdir(join(own, '@dormouse'), { recursive: true })
  for (const name of await readdir(modules))
    if (!['.cache', '@dormouse', 'dormouse'].includes(name))
      await symlink(join(modules, name), join(own, name))
  for (const name of await readdir(join(into, 'packages')))
    if (name === 'sdk') await symlink(join('../packages', name), join(own, 'dormouse'))
    else await symlink(join('../../packages', name), join(own, '@dormouse', name))
}

async function compile(into: string): Promise<void> {
  const native = ['-s', '-C', join(into, 'packages/engine-linux/native')]
  const headers = join(modules, 'node-api-headers/include')
  await run(join(modules, '.bin/tsc'), ['-b', '--noCheck', 'packages/server'], { cwd: into })
  await run('make', [...native, 'all'])
  await run('make', [...native, 'addons', `NODE_API_HEADERS=${headers}`])
}
