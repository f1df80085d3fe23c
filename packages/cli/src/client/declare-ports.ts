import { Argument, type Command, Option } from 'commander'
import { durationFlag } from './flags.ts'
import type { Declare } from './program.ts'

/** Commands about what listens inside a sandbox. */
export function declarePortCommands(program: Command, declare: Declare): void {
  const port = program
    .command('port')
    .description('what listens inside a sandbox, and who reaches it from outside')
    .helpCommand(false)
  const ports = () => import('./commands/port.ts')
  declare(port, {
    usage: 'ls <sandbox>',
    aliases: ['list'],
    summary: 'list ports that something listens on, and those that are public',
    load: async () => (await ports()).listPorts,
  })
  declare(port, {
    usage: 'wait <sandbox> <port>',
    summary: 'wait until something listens there, and print its address',
    options: [
      new Option('--timeout <time>', 'give up after so long')
        .argParser(durationFlag('--timeout'))
        .default(30_000, '30s'),
    ],
    load: async () => (await ports()).waitForPort,
  })
  declare(port, {
    usage: 'link <sandbox> <port>',
    summary: 'make an address that opens it without a key, for a while',
    options: [
      new Option('--for <time>', 'how long it opens')
        .argParser(durationFlag('--for'))
        .default(3_600_000, '1h'),
      new Option('--path <path>', 'the page that it opens').default('/'),
    ],
    load: async () => (await ports()).linkPort,
    examples: ['port link analysis 8888 --for 10m', "port link analysis 8888 --path '/lab?reset'"],
  })
  declare(port, {
    usage: 'set <sandbox> <port>',
    summary: 'say who reaches it: with a key or a link only, or anybody who knows the address',
    arguments: [new Argument('<access>', 'who').choices(['private', 'public'])],
    load: async () => (await ports()).setPort,
    examples: ['port set site 8000 public', 'port set site 8000 private'],
  })
}
