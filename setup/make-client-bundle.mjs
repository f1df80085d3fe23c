// Bundles the client commands into few files, so that they start fast: node setup/make-client-bundle.mjs
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { builds, clientBundlePaths } from './client-bundle.mjs'

const repoDir = dirname(dirname(fileURLToPath(import.meta.url)))
/** All of our packages: a class that is loaded twice would fail `instanceof`. */
const BUNDLED = /^(?:[./#]|commander$|dormouse$|@dormouse\/)/

const { directory, stamp } = clientBundlePaths(repoDir)
const madeOf = builds(repoDir)
const made = mkdtempSync(`${directory}-`)
try {
  const bundle = await rolldown({
    input: join(repoDir, 'packages/cli/dist/client/index.js'),
    platform: 'node',
    external: (name) => !BUNDLED.test(name),
  })
  await bundle.write({ dir: made, format: 'es' })
  await bundle.close()
  writeFileSync(join(made, 'made-of.json'), madeOf)
  // Without its stamp, no command uses the old bundle while it is being replaced.
  rmSync(stamp, { force: true })
  rmSync(directory, { recursive: true, force: true })
  renameSync(made, directory)
} finally {
  rmSync(made, { recursive: true, force: true })
}
