// One host of `./dormouse cluster dev`, with templates and tools of another data directory.
import { loadConfig, runServer } from '@dormouse/server'

const [dataDir = '', toolsDir = '', nats = '', keyFile = '', port = ''] = process.argv.slice(2)
const stop = new AbortController()
process.on('SIGTERM', () => stop.abort())
await runServer({
  config: loadConfig({
    env: { DORMOUSE_SSH: 'false' },
    dataDir,
    flags: { '--cluster': nats, '--cluster-key': keyFile, '--port': port },
  }),
  toolsDir,
  signal: stop.signal,
  print: (line) => console.log(line),
})
