// Makes everything that is published, and publishes it on request:
//   node setup/release/make-release.mjs [--out DIR] [--publish]
// Publishing needs credentials of npm (`npm login`) and of PyPI (`twine`); nothing is published without `--publish`.
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { stageCommandLine } from './command-line-package.mjs'
import { requireOneVersion } from './one-version.mjs'
import { run } from './run.mjs'

const repoDir = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const { values } = parseArgs({
  options: { out: { type: 'string', default: 'release' }, publish: { type: 'boolean', default: false } },
})
const out = resolve(values.out)
const version = requireOneVersion(repoDir)
if (values.publish && run('git', ['status', '--porcelain'], repoDir) !== '') {
  console.error('There are changes that are not committed. Commit them, then publish.')
  process.exit(1)
}
rmSync(out, { recursive: true, force: true })
mkdirSync(out, { recursive: true })
run('npx', ['tsc', '-b'], repoDir)
run(process.execPath, ['setup/make-client-bundle.mjs'], repoDir)
pack(join(repoDir, 'packages/sdk'))
const staged = stageCommandLine(repoDir, join(out, '.cli'))
pack(staged)
rmSync(staged, { recursive: true })
run(
  '/usr/bin/python3',
  ['-m', 'hatchling', 'build', '--directory', out, '--target', 'wheel', '--target', 'sdist'],
  join(repoDir, 'python'),
)
const files = readdirSync(out).sort()
const sums = files.map((name) => `${sha256(join(out, name))}  ${name}\n`)
writeFileSync(join(out, 'SHA256SUMS'), sums.join(''))
console.log(`Version ${version} is in ${out}:\n${files.map((name) => `  ${name}`).join('\n')}`)
if (values.publish) publish(files)
else console.log('Nothing was published. `--publish` publishes it.')

/** @param {string} directory */
function pack(directory) {
  run('npm', ['pack', '--silent', '--pack-destination', out], directory)
}

/** @param {string} path */
function sha256(path) {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

/** @param {readonly string[]} files */
function publish(files) {
  for (const name of files.filter((each) => each.endsWith('.tgz')))
    run('npm', ['publish', join(out, name), '--access', 'public', '--provenance'], repoDir)
  const python = files.filter((each) => /\.(whl|tar\.gz)$/.test(each)).map((each) => join(out, each))
  run('twine', ['upload', ...python], repoDir)
  run('git', ['tag', '--annotate', '--message', `Release ${version}`, `v${version}`], repoDir)
  console.log(`Published. Push the tag: git push origin v${version}`)
}
