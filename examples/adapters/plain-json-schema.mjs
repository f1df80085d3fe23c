// Any framework that takes a name, a JSON Schema and a function can use a sandbox through these six tools.
import assert from 'node:assert/strict'
import { Sandbox } from 'dormouse'
import { sandboxTools } from 'dormouse/tools'

const sandbox = await Sandbox.create()
const tools = new Map(sandboxTools({ sandbox }).map((tool) => [tool.name, tool]))
console.log([...tools.keys()].join(' '))
for (const { inputSchema } of tools.values()) assert.equal(inputSchema.type, 'object')
const call = (name, input) => tools.get(name).execute(input)

await call('run_python', { code: 'total = sum(range(101))' })
await sandbox.idle({ tier: 'stored' }) // the model thinks for a week
const { text, tokens } = await call('run_python', { code: 'total' })
assert.equal(text, '5050')
assert.equal(tokens, 1)

// Plots are images, and long output is cut with a note.
const plot = await call('run_python', {
  code: 'import matplotlib.pyplot as plt; plt.plot([1, 2, 3]); plt.show()',
})
assert.equal(plot.images[0].mediaType, 'image/png')
const long = await call('run_shell', { command: 'seq 1 20000' })
assert.match(long.text, /bytes left out[\s\S]*\[cut: print less/)

await call('write_file', { path: 'notes/a.txt', content: 'héllo\n' })
assert.equal((await call('read_file', { path: 'notes/a.txt' })).text, 'héllo\n')
assert.match((await call('read_file', { path: 'notes/a.txt', maxBytes: 2 })).text, /^h\n\[7 bytes in total/)
assert.match((await call('list_files', { path: 'notes' })).text, /a\.txt {2}7 bytes/)
await call('run_shell', { command: 'nohup python3 -m http.server 8000 >/dev/null 2>&1 &' })
assert.match((await call('preview_url', { port: 8000 })).text, /^http/)

// What goes wrong is a result that says what to do next.
const wrong = await call('run_shell', { command: 7, shell: 'zsh' })
assert.equal(wrong.isError, true)
assert.match(wrong.text, /command: must be text; shell: is not an input of this tool\nHint: Correct/)
assert.equal((await call('read_file', { path: 'missing' })).isError, true)
assert.match((await call('run_python', { code: '1 / 0' })).text, /ZeroDivisionError/)
await sandbox.delete()
console.log('all six tools work')
