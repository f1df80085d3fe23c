import { type Command, Option } from 'commander'
import { collectValues, quietOption } from './flags.ts'
import type { Define } from './program.ts'

/** Commands about webhooks. */
export function defineWebhookCommands(program: Command, define: Define): void {
  const webhook = program
    .command('webhook')
    .description('events of the server as signed requests to a receiver')
    .helpCommand(false)
  const webhooks = () => import('./commands/webhook.ts')
  define(webhook, {
    usage: 'create <name> <url>',
    summary: 'send events to this URL; prints the secret that signs them, once',
    options: [
      new Option('--event <type>', 'a type of event, such as job.ended, any number of times').argParser(
        collectValues,
      ),
      new Option('--sandbox <sandbox>', 'only events of this sandbox'),
    ],
    load: async () => (await webhooks()).createWebhook,
    examples: ['webhook create ci https://example.com/hook --event job.ended --event run.finished'],
  })
  define(webhook, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list webhooks',
    options: [quietOption()],
    load: async () => (await webhooks()).listWebhooks,
  })
  define(webhook, {
    usage: 'show <name>',
    summary: 'show a webhook and its latest deliveries',
    load: async () => (await webhooks()).showWebhook,
  })
  define(webhook, {
    usage: 'update <name>',
    summary: 'change where and what a webhook sends, or turn it off and on',
    options: [
      new Option('--to <url>', 'another URL'),
      new Option('--event <type>', 'only these types of events from now on').argParser(collectValues),
      new Option('--on', 'turn it on'),
      new Option('--off', 'turn it off'),
    ],
    load: async () => (await webhooks()).updateWebhook,
  })
  define(webhook, {
    usage: 'rotate <name>',
    summary: 'make and print a new secret; the former one also signs for a day',
    load: async () => (await webhooks()).rotateWebhook,
  })
  define(webhook, {
    usage: 'test <name>',
    summary: 'send a test event now; exit status 1 if the receiver does not take it',
    load: async () => (await webhooks()).testWebhook,
  })
  define(webhook, {
    usage: 'rm <names...>',
    summary: 'delete webhooks',
    load: async () => (await webhooks()).removeWebhooks,
  })
}
