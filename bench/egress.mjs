// Measures the cost of the gate: throughput and time to the first byte, compared with a direct connection on the same
// machine.
// Run as root: python3 packages/egress/src/testing/namespaces.py node bench/egress.mjs
import { execFile, fork } from 'node:child_process'
import { createServer } from 'node:net'
import { promisify } from 'node:util'
import { Egress } from '../packages/egress/dist/index.js'

const ADDRESS = '11.1.2.3'
const BYTES = 1024 ** 3
const ROUNDS = 5
const CONNECTIONS = 300
const [TCP, DNS, NAMESPACE] = [800, 801, 802]

const DOWNLOAD = `
import socket, time
s = socket.create_connection(("${ADDRESS}", 443)); b = bytearray(1 << 20); n = 0; t = time.perf_counter(); s.sendall(b"d")
while True:
    got = s.recv_into(b)
    if not got: break
    n += got
print(n / (time.perf_counter() - t) / 2**20)
`
const FIRST_BYTE = `
import socket, time
all = []
for i in range(${CONNECTIONS}):
    t = time.perf_counter(); s = socket.create_connection(("${ADDRESS}", 443)); s.sendall(b"e"); s.recv(1); all.append(time.perf_counter() - t); s.close()
all.sort(); print(all[len(all) // 2] * 1000, all[int(len(all) * .99)] * 1000)
`

if (process.argv[2] === 'serve') serve()
else await measure()

function serve() {
  const chunk = Buffer.alloc(1024 ** 2)
  createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {})
    socket.once('data', (asked) => {
      if (asked[0] === 0x65) return socket.end('e')
      let left = BYTES / chunk.length
      const send = () => {
        while (left-- > 0) if (!socket.write(chunk)) return socket.once('drain', send)
        socket.end()
      }
      send()
    })
  }).listen(443, ADDRESS, () => process.send('ready'))
}

async function measure() {
  const server = fork(new URL(import.meta.url), ['serve'])
  await new Promise((resolve) => server.once('message', resolve))
  const egress = await Egress.start({ resolvers: [] })
  await egress.attach('one', { tcp: TCP, dns: DNS }, { mode: 'public', allow: [], secrets: [] })
  const results = { direct: { rates: [], times: [] }, gate: { rates: [], times: [] } }
  for (let round = 0; round < ROUNDS; round++) {
    for (const way of ['direct', 'gate']) {
      results[way].rates.push(Number(await run(way, DOWNLOAD)))
      results[way].times.push((await run(way, FIRST_BYTE)).split(' ').map(Number))
    }
  }
  for (const [way, { rates, times }] of Object.entries(results)) {
    const [half, most] = [0, 1].map((at) => median(times.map((pair) => pair[at])))
    console.log(
      `${way}: ${median(rates).toFixed(0)} MiB/s, first byte ${half.toFixed(2)} ms (p99 ${most.toFixed(2)} ms)`,
    )
  }
  await egress.close()
  server.kill()
}

async function run(way, script) {
  const python = ['python3', '-c', script]
  const [command, ...args] =
    way === 'direct' ? python : ['nsenter', `--net=/proc/${process.pid}/fd/${NAMESPACE}`, ...python]
  return (await promisify(execFile)(command, args)).stdout.trim()
}

function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]
}
