import { type Command, Option } from 'commander'
import type { Define } from './program.ts'

/** Commands about the hosts of a cluster. */
export function defineNodeCommands(program: Command, define: Define): void {
  const commands = () => import('./commands/node.ts')
  define(program, {
    usage: 'nodes',
    summary: 'list the hosts of the cluster, with their room and load',
    load: async () => (await commands()).listNodes,
  })
  define(program, {
    usage: 'move <sandbox> <node>',
    summary: 'move a sandbox to another host of the cluster',
    load: async () => (await commands()).moveSandbox,
  })
  define(program, {
    usage: 'cordon <node>',
    summary: 'give a host no new sandboxes',
    options: [new Option('--undo', 'give it new sandboxes again')],
    load: async () => (await commands()).cordonNode,
  })
  define(program, {
    usage: 'drain <node>',
    summary: 'cordon a host and move its sandboxes to others; exit status 1 if some stay',
    load: async () => (await commands()).drainNode,
  })
}
