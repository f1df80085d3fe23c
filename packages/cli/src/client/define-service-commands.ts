import { type Command, Option } from 'commander'
import { createOptions } from './create-flags.ts'
import { collectValues, numberFlag, quietOption, timeFlag } from './flags.ts'
import type { Define } from './program.ts'
import { readyOptions } from './ready-flags.ts'
import { serviceOptions } from './service-flags.ts'

/** Flags of `create` that say nothing about a service. */
const NOT_OF_SERVICES = new Set([
  ...['--snapshot', '--metadata', '--idle', '--store-after', '--max-background', '--wake-on-timer'],
  ...[
    '--keep-asleep',
    '--wake-on-data',
    '--at-memory-limit',
    '--checkpoint-every',
    '--expires-after',
    '--expires-idle',
  ],
])

/** Commands about services. */
export function defineServiceCommands(program: Command, define: Define): void {
  defineDeploy(program, define)
  const service = program
    .command('service')
    .description('programs that answer requests and sleep in between')
    .helpCommand(false)
  defineReports(service, define)
  defineChanges(service, define)
}

function defineDeploy(program: Command, define: Define): void {
  define(program, {
    usage: 'deploy [source]',
    summary: 'serve a directory, a template or an image at a stable address, asleep until it is asked',
    options: [
      new Option('--name <name>', 'the name of the service (default: that of the source)'),
      new Option('--port <number>', 'the port that the program listens on').argParser(numberFlag('--port')),
      new Option('--start <command>', 'the command that serves (default: what the source says)'),
      ...readyOptions(),
      new Option(
        '--image <image>',
        'the container image to build on: node:24, an archive (web.tar) or an OCI layout (./web)',
      ),
      new Option(
        '--login <user[@registry]>',
        'log in to a registry; the password is in DORMOUSE_REGISTRY_PASSWORD (several: one a line), or is asked for',
      ).argParser(collectValues),
      new Option('--build-arg <name=value>', 'a value for ARG of the Dockerfile').argParser(collectValues),
      new Option('--target <stage>', 'the stage of the Dockerfile to build (default: the last)'),
      new Option('-w, --cwd <path>', 'the working directory of the program'),
      new Option('-u, --user <name>', 'the user of the program'),
      ...createOptions().filter(({ long }) => !NOT_OF_SERVICES.has(long ?? '')),
      ...serviceOptions(),
    ],
    load: async () => (await import('./commands/deploy.ts')).deployService,
    examples: [
      'deploy . --name api --start "node server.js" --port 3000',
      'deploy nginx:alpine --name web --port 80',
      'deploy python --name files --start "python3 -m http.server 8000" --port 8000 --public',
    ],
  })
}

function defineReports(service: Command, define: Define): void {
  const services = () => import('./commands/service.ts')
  define(service, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list services',
    options: [quietOption()],
    load: async () => (await services()).listServices,
  })
  define(service, {
    usage: 'show <name>',
    summary: 'show a service with its versions and replicas',
    load: async () => (await services()).showService,
  })
  define(service, {
    usage: 'logs <name>',
    summary: 'show what the programs of a service print',
    options: [
      new Option('-f, --follow', 'continue with new lines'),
      new Option('--since <time>', 'only lines since then: 10m, 2026-01-31').argParser(timeFlag('--since')),
      new Option('--search <text>', 'only lines that contain this text'),
      new Option('--tail <number>', 'at most this many of the newest lines').argParser(numberFlag('--tail')),
    ],
    load: async () => (await services()).showServiceLogs,
    examples: ['service logs api --follow', 'service logs api --since 1h --search error'],
  })
}

function defineChanges(service: Command, define: Define): void {
  const services = () => import('./commands/service.ts')
  define(service, {
    usage: 'update <name>',
    summary: 'change how a service is reached, scaled, checked and restarted',
    options: serviceOptions(),
    load: async () => (await services()).updateService,
    examples: ['service update api --max 5 --concurrency 10'],
  })
  define(service, {
    usage: 'rollback <name>',
    summary: 'send requests to an older version',
    options: [
      new Option('--to <version>', 'the version (default: the one before)').argParser(numberFlag('--to')),
    ],
    load: async () => (await services()).rollbackService,
    examples: ['service rollback api', 'service rollback api --to 3'],
  })
  define(service, {
    usage: 'rm <names...>',
    summary: 'delete services with their versions, replicas and logs',
    load: async () => (await services()).removeServices,
  })
}
