// Everything outside of the host, as far as the tests need it: answers on every address of its namespace, and is its
// name server.
import { spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'
import dnsPacket from 'dns-packet'

const PORTS = [22, 80, 443, 5432, 8080]
const records = new Map()
const questions = []
const connections = []

process.on('message', ({ id, set, forget, ask }) => {
  if (set !== undefined) for (const [name, lists] of Object.entries(set)) records.set(name, lists)
  if (forget === true) {
    questions.length = 0
    connections.length = 0
  }
  process.send({ id, ...(ask === true && { questions, connections }) })
})
// The test has ended, in whatever way: the namespaces, whose names are the arguments, go too.
process.on('disconnect', () => {
  for (const name of process.argv.slice(2)) spawnSync('ip', ['netns', 'del', name])
  process.exit()
})

/** `{A: [[first answer], [every later one]]}`. A name without records does not exist. */
function answers({ name, type }) {
  const lists = records.get(name.toLowerCase())
  if (lists === undefined) return undefined
  const all = lists[type] ?? []
  const data = all.length > 1 ? all.shift() : (all[0] ?? [])
  return data.map((address) => ({ name, type, ttl: 0, data: address }))
}

function reply(packet) {
  const query = dnsPacket.decode(packet)
  const [question] = query.questions
  questions.push(question.name)
  const found = answers(question)
  return dnsPacket.encode({
    type: 'response',
    id: query.id,
    flags: dnsPacket.RECURSION_AVAILABLE | (found === undefined ? 3 : 0),
    questions: query.questions,
    answers: found ?? [],
  })
}

/**
 * One at the name server's own address, so that answers come from there; one at all others, where no sandbox has
 * business to ask.
 */
const names = ['11.0.0.53', '::'].map(
  (address) =>
    new Promise((resolve) => {
      const socket = createSocket({ type: address === '::' ? 'udp6' : 'udp4', reuseAddr: true })
      socket.on('message', (packet, from) => socket.send(reply(packet), from.port, from.address))
      socket.bind(53, address, resolve)
    }),
)

/** HTTP of the simplest kind. `/redirect?to` leads there, `/hold` never ends, `/bytes?n` sends so many. */
function serve(socket, port) {
  const where = `${socket.localAddress.replace(/^::ffff:/, '')} ${port}`
  connections.push(where)
  socket.on('error', () => {})
  socket.once('data', (head) => {
    const path = /^GET (\S+)/.exec(String(head))?.[1] ?? '/'
    const [what, value = ''] = path.split('?')
    if (what === '/hold') return socket.write('HTTP/1.1 200 OK\r\n\r\nheld\n')
    if (what === '/redirect')
      return socket.end(
        `HTTP/1.1 302 Found\r\nLocation: ${decodeURIComponent(value)}\r\nContent-Length: 0\r\n\r\n`,
      )
    const body = what === '/bytes' ? 'x'.repeat(Number(value)) : `reached ${where}`
    socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`)
  })
}

const listening = PORTS.map(
  (port) =>
    new Promise((resolve) => createServer((socket) => serve(socket, port)).listen(port, '::', 4096, resolve)),
)
await Promise.all([...listening, ...names])
process.send({ id: 'ready' })
