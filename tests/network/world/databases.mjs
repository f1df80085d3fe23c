// PostgreSQL on port 5433 and Redis on 6379, each as its package has it, and a WebSocket echo on 7009.
import { execFileSync, spawn } from 'node:child_process'
import { chownSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { acceptWebSocket, sendText } from './websocket.mjs'

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

const echo = createServer().on('upgrade', (request, socket) =>
  acceptWebSocket(request, socket, (text) => sendText(socket, text)),
)
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
