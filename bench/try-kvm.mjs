// For a host with KVM: sets up what virtual machines need, measures them against processes, and prints a result to paste
// into an issue. As root: node bench/try-kvm.mjs [--data DIR]. Takes about ten minutes, most of them for the template.
// With --quick it measures everything once, which only shows that it works.
// It installs Debian's packages of QEMU, and keeps everything else in the data directory. On a host whose KVM does not
// work it says so and ends with status 1; with --emulate it measures emulation.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runSteps } from '../setup/run-steps.mjs'
import { allSteps, BUILD_STEPS } from '../setup/steps/index.mjs'
import { MICROVM_STEPS } from '../setup/steps/microvm.mjs'

const repoDir = dirname(dirname(fileURLToPath(import.meta.url)))
const { values } = parseArgs({
  options: {
    data: { type: 'string', default: process.env.DORMOUSE_DATA ?? '/var/lib/dormouse' },
    emulate: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
  },
})
if (process.getuid?.() !== 0) end('This needs root: sudo node bench/try-kvm.mjs')
if (!values.emulate && !existsSync('/dev/kvm'))
  end('This host has no /dev/kvm. Nothing was installed and nothing was measured.')
process.umask(0o022)
const dataDir = resolve(values.data)
const { signal } = new AbortController()
const context = { repoDir, dataDir, signal, output: process.stderr }
const [qemu, ...rest] = MICROVM_STEPS
if (!values.emulate) {
  // QEMU itself tells whether KVM works: /dev/kvm can exist where no guest runs, for example in a virtual machine.
  await runSteps([...BUILD_STEPS, qemu], context)
  const { findQemu } = await import('@dormouse/engine-microvm')
  await findQemu('kvm').catch((error) => end(`${error.message} Nothing was measured.`))
}
await runSteps([...allSteps(repoDir), qemu, ...rest], context)
const measure = join(repoDir, 'bench/microvm.mjs')
const how = ['--data', dataDir, '--dry', ...(values.quick ? ['--quick'] : [])]
const text = execFileSync(process.execPath, [measure, ...how], {
  ...{ cwd: repoDir, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
})
console.log(`\n--- paste from here ---\n\n${text}\n--- to here ---`)

/** @param {string} why */
function end(why) {
  console.error(`try-kvm: ${why}\n  With --emulate it measures machines that QEMU emulates, which is slow.`)
  process.exit(1)
}
