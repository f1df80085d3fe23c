// Runs the measured server in a separate process.
import { loadConfig, runServer } from '@dormouse/server'

const [dataDir, toolsDir] = process.argv.slice(2)
const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort())
process.on('message', () => {
  globalThis.gc()
  process.send(process.memoryUsage().heapUsed)
})
await runServer({
  config: loadConfig({ env: {}, dataDir, flags: { '--port': '0' } }),
  toolsDir,
  signal: stop.signal,
  print: (line) => console.log(line),
})
if (process.connected) process.disconnect()
