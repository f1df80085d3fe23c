import { type Command, Option } from 'commander'
import { numberFlag, quietOption } from './flags.ts'
import { languageOption } from './language.ts'
import type { Define } from './program.ts'

/** Commands about schedules. */
export function defineScheduleCommands(program: Command, define: Define): void {
  const schedule = program
    .command('schedule')
    .description('runs, jobs and requests at the times of a cron expression')
    .helpCommand(false)
  const schedules = () => import('./commands/schedule.ts')
  define(schedule, {
    usage: 'create <name> <cron>',
    summary:
      'run code in a sandbox, start a job, or call a port or a service at the times of a cron expression',
    options: [...timeOptions(), ...actionOptions()],
    load: async () => (await schedules()).createSchedule,
    examples: [
      'schedule create nightly "30 2 * * *" --timezone Europe/Berlin --sandbox analysis --run "refresh()"',
      'schedule create scores "@hourly" --job job.json --missed once',
      'schedule create ping "*/5 * * * *" --sandbox web --port 8000 --path /tick',
      'schedule create warm "0 8 * * 1-5" --service api --method GET --path /healthz',
    ],
  })
  define(schedule, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list schedules, with their next time',
    options: [quietOption()],
    load: async () => (await schedules()).listSchedules,
  })
  define(schedule, {
    usage: 'show <name>',
    summary: 'show a schedule and its latest firings',
    load: async () => (await schedules()).showSchedule,
  })
  define(schedule, {
    usage: 'update <name>',
    summary: 'change when a schedule fires, or turn it off and on',
    options: [
      new Option('--cron <expression>', 'other times'),
      ...timeOptions(),
      new Option('--on', 'turn it on'),
      new Option('--off', 'turn it off'),
    ],
    load: async () => (await schedules()).updateSchedule,
    examples: ['schedule update nightly --off'],
  })
  define(schedule, {
    usage: 'fire <name>',
    summary: 'fire a schedule now, beside its times; exit status 1 if that fails',
    load: async () => (await schedules()).fireSchedule,
  })
  define(schedule, {
    usage: 'rm <names...>',
    summary: 'delete schedules; what they have started continues',
    load: async () => (await schedules()).removeSchedules,
  })
}

function timeOptions(): Option[] {
  return [
    new Option('--timezone <zone>', 'a time zone, such as Europe/Berlin'),
    new Option(
      '--missed <policy>',
      'times that passed while the server was down: none fires, or the latest',
    ).choices([...['skip', 'once']]),
  ]
}

function actionOptions(): Option[] {
  return [
    new Option('--sandbox <sandbox>', 'the sandbox to run code in or to call'),
    new Option('--run <code>', 'run this code in the sandbox'),
    languageOption('--language <language>', 'the language of the code'),
    new Option('--job <file>', 'start the job that this JSON file describes, as POST /v1/jobs takes it'),
    new Option('--port <port>', 'send a request to this port of the sandbox').argParser(numberFlag('--port')),
    new Option('--service <name>', 'send a request to this service'),
    new Option('--method <method>', 'of the request').choices(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
    new Option('--path <path>', 'of the request'),
    new Option('--body <text>', 'of the request'),
  ]
}
