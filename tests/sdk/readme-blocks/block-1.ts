import { Sandbox } from 'dormouse'

const sandbox = await Sandbox.create()
await sandbox.runCode('import pandas as pd; df = pd.DataFrame({"x": range(1000)})')
const id = await sandbox.idle() // asleep, for as long as you like

const again = await Sandbox.resume(id) // in another process, next week
const { text } = await again.runCode('int(df.x.sum())')
console.log(text) // 499500
await again.delete()
