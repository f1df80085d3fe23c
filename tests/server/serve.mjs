// A server as `dormouse up` runs it, on a data directory of the test's own with the templates of the host.
import { MicrovmEngine } from '@dormouse/engine-microvm'
import { loadConfig, runServer } from '@dormouse/server'
import { parseServerFlags } from '../../setup/server-flags.mjs'

const [dataDir, toolsDir, ...args] = process.argv.slice(2)
// Machines of all tests start from one booted template, which has no imported libraries: see tests/engine-microvm.
const open = MicrovmEngine.open.bind(MicrovmEngine)
MicrovmEngine.open = (options) => open({ ...options, preload: [] })

const stop = new AbortController()
process.on('SIGTERM', () => stop.abort())
await runServer({
  config: loadConfig({ env: {}, dataDir, flags: parseServerFlags(args) }),
  toolsDir,
  signal: stop.signal,
  // Minutes of downloads: see tests/images/built-ins.test.ts.
  buildsTemplates: process.env.DORMOUSE_TEST_BUILT_INS === '1',
  print: (line) => console.log(line),
  tell: (report) => console.log(`report ${JSON.stringify(report)}`),
})
