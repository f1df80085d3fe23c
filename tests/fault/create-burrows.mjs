// A server in miniature, to be killed: creates burrows one after another and says when each is there.
import { newSandboxId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'

const [dataDir, stateDir] = process.argv.slice(2)
const engine = await LinuxEngine.open({ dataDir, stateDir })
process.stdout.write('open\n')
for (;;) {
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  process.stdout.write(`${burrow.id}\n`)
}
