// A server in miniature, to be killed: takes over the burrow that is there, and puts it to sleep.
import { LinuxEngine } from '@dormouse/engine-linux'

const [dataDir, stateDir] = process.argv.slice(2)
const engine = await LinuxEngine.open({ dataDir, stateDir })
const { burrows } = await engine.adoptBurrows()
process.stdout.write('begin\n')
const { snapshot } = await engine.snapshot(burrows[0], { leave: 'gone' })
process.stdout.write(`${snapshot.id}\n`)
await new Promise((resolve) => setTimeout(resolve, 60_000))
