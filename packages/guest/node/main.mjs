// Start of a kernel for JavaScript and TypeScript, as `node main.mjs <control fd> <interrupt fd>`.
import { Control } from './control.mjs'
import { Interrupts } from './interrupts.mjs'
import { Kernel } from './kernel.mjs'
import { replaceOutput } from './output-streams.mjs'
import { hideOwnWarnings } from './own-warnings.mjs'

hideOwnWarnings()
process.title = 'dormouse-kernel'
const [, , controlFd, interruptFd] = process.argv
process.argv = [process.execPath]
process.execArgv = []
const control = new Control(Number(controlFd))
const kernel = new Kernel(control, replaceOutput(control), new Interrupts(Number(interruptFd)))
control.listen(
  (message) => void kernel.take(message),
  // Not process.exit(), which would wait for the thread that reads the interrupt pipe.
  () => process.kill(process.pid, 'SIGKILL'),
)
kernel.start()
