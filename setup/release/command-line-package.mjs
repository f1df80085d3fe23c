import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clientBundlePaths } from '../client-bundle.mjs'

/** Runs a client command. Published as `dormouse` of the package. */
const PROGRAM = `#!/usr/bin/env node
import { clientIo } from './client-io.mjs'
import { runClient } from './client/index.js'

const io = clientIo()
const status = await runClient({ args: process.argv.slice(2), io })
process.exitCode = io.signal.reason === 'SIGPIPE' ? 0 : status
`
const README = `# dormouse-cli

The command line of Dormouse, for a server that runs elsewhere: set
\`DORMOUSE_URL\` and \`DORMOUSE_API_KEY\`, then \`dormouse create\`, \`dormouse run\`, \`dormouse sh\` and the others.
To run a server, clone the repository and use its own \`./dormouse up\`.
`

/**
 * Writes the package of the command line, without the server, and returns its directory.
 * @param {string} repoDir
 * @param {string} directory
 */
export function stageCommandLine(repoDir, directory) {
  const bundle = clientBundlePaths(repoDir).directory
  mkdirSync(directory, { recursive: true })
  cpSync(bundle, join(directory, 'client'), {
    recursive: true,
    filter: (path) => !path.endsWith('made-of.json'),
  })
  cpSync(join(repoDir, 'setup/client-io.mjs'), join(directory, 'client-io.mjs'))
  cpSync(join(repoDir, 'LICENSE'), join(directory, 'LICENSE'))
  writeFileSync(join(directory, 'README.md'), README)
  writeFileSync(join(directory, 'dormouse.mjs'), PROGRAM, { mode: 0o755 })
  const { version, license, type } = manifestOf(repoDir, 'cli')
  const { engines, keywords } = manifestOf(repoDir, 'sdk')
  const manifest = {
    name: 'dormouse-cli',
    version,
    description: 'The command line of Dormouse, sandboxes that never forget',
    ...{ license, type, engines, keywords },
    bin: { dormouse: 'dormouse.mjs' },
    files: ['client', 'client-io.mjs', 'dormouse.mjs'],
    dependencies: importedBy(repoDir, join(directory, 'client')),
  }
  writeFileSync(join(directory, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  return directory
}

/**
 * The packages that the bundle imports, with the versions that ours declare.
 * @param {string} repoDir
 * @param {string} bundle
 */
function importedBy(repoDir, bundle) {
  /** @type {Record<string, string>} */
  const declared = {}
  for (const name of ['cli', 'mcp', 'contracts'])
    Object.assign(declared, manifestOf(repoDir, name).dependencies)
  const texts = readdirSync(bundle).map((name) => readFileSync(join(bundle, name), 'utf8'))
  const names = Object.keys(declared).filter((name) =>
    texts.some((text) => text.includes(`"${name}"`) || text.includes(`"${name}/`)),
  )
  return Object.fromEntries(
    names.filter((name) => !name.includes('dormouse')).map((name) => [name, declared[name]]),
  )
}

/** @param {string} repoDir @param {string} name */
function manifestOf(repoDir, name) {
  return JSON.parse(readFileSync(join(repoDir, 'packages', name, 'package.json'), 'utf8'))
}
