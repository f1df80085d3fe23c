// A server in miniature, to be killed: creates a burrow, and restores others ahead of need until it is.
import { LinuxEngine } from '@dormouse/engine-linux'

const [dataDir, stateDir, sandboxId] = process.argv.slice(2)
const engine = await LinuxEngine.open({ dataDir, stateDir })
await engine.createBurrow({ sandboxId, template: 'python' })
process.stdout.write('created\n')
await new Promise((resolve) => setTimeout(resolve, 60_000))
