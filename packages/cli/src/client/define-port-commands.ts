import { Argument, type Command, Option } from 'commander'
import { durationFlag } from './flags.ts'
import type { Define } from './program.ts'

/** Commands about ports that programs inside a sandbox listen on. */
export function definePortCommands(program: Command, define: Define): void {
  const port = program
    .command('port')
    .description('ports inside a sandbox, and who can reach them from outside')
    .helpCommand(false)
  const ports = () => import('./commands/port.ts')
  define(port, {
    usage: 'ls <sandbox>',
    aliases: ['list'],
    summary: 'list open ports and public ports',
    load: async () => (await ports()).listPorts,
  })
  define(port, {
    usage: 'wait <sandbox> <port>',
    summary: 'wait until a program listens on the port, and print its address',
    options: [
      new Option('--timeout <time>', 'give up after this time')
        .argParser(durationFlag('--timeout'))
        .default(30_000, '30s'),
    ],
    load: async () => (await ports()).waitForPort,
  })
  define(port, {
    usage: 'link <sandbox> <port>',
    summary: 'make an address that opens the port without a key, for a limited time',
    options: [
      new Option('--for <time>', 'how long the link is valid')
        .argParser(durationFlag('--for'))
        .default(3_600_000, '1h'),
      new Option('--path <path>', 'the page that the link opens').default('/'),
    ],
    load: async () => (await ports()).linkPort,
    examples: ['port link analysis 8888 --for 10m', "port link analysis 8888 --path '/lab?reset'"],
  })
  define(port, {
    usage: 'set <sandbox> <port>',
    summary: 'make a port private (a key or a link is needed) or public (the address is enough)',
    arguments: [new Argument('<access>', 'who can reach it').choices(['private', 'public'])],
    load: async () => (await ports()).setPort,
    examples: ['port set site 8000 public', 'port set site 8000 private'],
  })
}
