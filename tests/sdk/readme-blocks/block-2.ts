import { Sandbox } from 'dormouse'

await using sandbox = await Sandbox.create({ ephemeral: true }) // deleted at the end of the block
const run = await sandbox.runCode('print("working"); 1 / 0', {
  onStdout: (text) => console.log(text.trim()), // working
  timeoutMs: 10_000,
})
console.log(run.error?.name) // ZeroDivisionError

for await (const event of sandbox.runCodeStream('print("one"); 2')) {
  if (event.type === 'stdout') console.log(event.data.trim()) // one
  if (event.type === 'result') console.log(event.data['text/plain']) // 2
}
const shell = await sandbox.runCode('cd /tmp; pwd', { language: 'bash' })
console.log(shell.stdout.trim()) // /tmp
