import { Sandbox } from 'dormouse'

const sandbox = await Sandbox.create()
await sandbox.runCode('x = 10')

const [left, right] = await sandbox.fork(2)
await left.runCode('x += 1')
console.log((await left.runCode('x')).text, (await right.runCode('x')).text) // 11 10

const { winner, ranking } = await sandbox.race(['x *= 2', 'x -= 3', 'x /= 0'], { score: 'x' })
console.log(ranking.map(({ index, score }) => [index, score])) // [[0,20],[1,7],[2,null]]

const outcomes = await winner.map([1, 2, 3], 'x + item', { concurrency: 2 })
console.log(outcomes.map((outcome) => outcome.ok && outcome.value.text)) // ["21","22","23"]

await Promise.all([sandbox, left, right, winner].map((each) => each.delete()))
