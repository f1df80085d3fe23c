// `dormouse mcp` as the command runs it, for a client that starts it as its child.
import { runStdio } from '@dormouse/mcp'

const [url, apiKey, sandbox] = process.argv.slice(2)
const stop = new AbortController()
process.on('SIGTERM', () => stop.abort())
const { stdin, stdout, stderr } = process
await runStdio({ url, apiKey, sandbox, stdin, stdout, stderr, signal: stop.signal })
