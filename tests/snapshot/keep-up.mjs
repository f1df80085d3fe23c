// A server in miniature, to be killed: keeps up the snapshots that are there.
import { LinuxEngine } from '@dormouse/engine-linux'

const [dataDir, stateDir] = process.argv.slice(2)
const engine = await LinuxEngine.open({ dataDir, stateDir })
process.stdout.write('begin\n')
await engine.upkeep()
process.stdout.write('end\n')
await new Promise((resolve) => setTimeout(resolve, 60_000))
