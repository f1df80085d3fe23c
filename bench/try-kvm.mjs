// For a host with KVM: sets up what virtual machines need, measures them against processes, and prints a result to paste
// into an issue. As root: node bench/try-kvm.mjs [--data DIR]. Takes about ten minutes, most of them for the template.
// It installs Debian's packages of QEMU, and keeps everything else in the data directory.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runSteps } from '../setup/run-steps.mjs'
import { allSteps } from '../setup/steps/index.mjs'
import { MICROVM_STEPS } from '../setup/steps/microvm.mjs'

const repoDir = dirname(dirname(fileURLToPath(import.meta.url)))
const { values } = parseArgs({
  options: { data: { type: 'string', default: process.env.DORMOUSE_DATA ?? '/var/lib/dormouse' } },
})
if (process.getuid?.() !== 0) {
  console.error('This needs root: sudo node bench/try-kvm.mjs')
  process.exit(1)
}
if (!existsSync('/dev/kvm')) console.error('There is no /dev/kvm: machines will be emulated, which is slow.')
process.umask(0o022)
const dataDir = resolve(values.data)
const { signal } = new AbortController()
const context = { repoDir, dataDir, signal, output: process.stderr }
await runSteps([...allSteps(repoDir), ...MICROVM_STEPS], context)
const measure = join(repoDir, 'bench/microvm.mjs')
const text = execFileSync(process.execPath, [measure, '--data', dataDir, '--dry'], {
  ...{ cwd: repoDir, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
})
console.log(`\n--- paste from here ---\n\n${text}\n--- to here ---`)
