// PostgreSQL on port 5433 and Redis on 6379, each as its package has it, and a WebSocket echo on 7009.
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chownSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const directory = mkdtempSync('/tmp/dormouse-databases-')
const user = (flag) => Number(execFileSync('id', [flag, 'postgres']))
chownSync(directory, user('-u'), user('-g'))
const children = []
for (const end of ['disconnect', 'SIGTERM']) process.on(end, () => process.exit())
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(directory, { recursive: true, force: true })
})

function run(command, args, argv0 = command) {
  children.push(spawn(command, args, { stdio: 'ignore', argv0 }))
}

const [version] = readdirSync('/usr/lib/postgresql').sort((a, b) => Number(b) - Number(a))
const bin = `/usr/lib/postgresql/${version}/bin`
const asPostgres = ['--reuid', 'postgres', '--regid', 'postgres', '--clear-groups']
const data = `${directory}/data`
execFileSync('setpriv', [...asPostgres, `${bin}/initdb`, '-A', 'trust', '-N', '-D', data], {
  stdio: 'ignore',
})
const hba = 'host all all 0.0.0.0/0 trust\n'
execFileSync('setpriv', [...asPostgres, 'tee', '-a', `${data}/pg_hba.conf`], {
  input: hba,
  stdio: ['pipe', 'ignore', 'ignore'],
})
const settings = ['-p', '5433', '-k', directory, '-c', 'listen_addresses=*', '-c', 'fsync=off']
run('setpriv', [...asPostgres, `${bin}/postgres`, '-D', data, ...settings])
const redis = ['--port', '6379', '--bind', '*', '--protected-mode', 'no', '--save', '', '--dir', directory]
// Debian's redis-server is a link to this program, which goes by the name that it is called by.
run('redis-check-rdb', redis, 'redis-server')

/** Sends every frame back as it came, without its mask. Frames are shorter than 126 bytes. */
const echo = createServer().on('upgrade', (request, socket) => {
  const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`
  const accept = createHash('sha1').update(key).digest('base64')
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  )
  socket.on('error', () => {})
  socket.on('data', (frame) => {
    const mask = frame.subarray(2, 6)
    const text = frame.subarray(6).map((byte, index) => byte ^ mask[index % 4])
    socket.write(Buffer.concat([Buffer.from([frame[0], text.length]), text]))
  })
})
await new Promise((resolve) => echo.listen(7009, '::', resolve))

async function untilOpen(port) {
  for (;;) {
    const isOpen = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1')
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
      socket.once('connect', () => socket.destroy())
    })
    if (isOpen) return
    await sleep(50)
  }
}
await Promise.all([untilOpen(5433), untilOpen(6379)])
process.send({ id: 'ready' })
