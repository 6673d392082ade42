// @ts-check
// What the four chats are about. One word stands for one token.

/** @typedef {{ name: string, question: string, answer: string }} Conversation */

/** @type {Conversation[]} */
export const CONVERSATIONS = [
  {
    name: "Ana",
    question: "Why does bread rise?",
    answer: `Yeast is a living thing, and flour is its dinner. It eats the sugars that enzymes free from the starch, and it
breathes out carbon dioxide. The gas has nowhere to go: gluten, the elastic net that forms when flour meets water, holds it in
thousands of small bubbles. Warm dough rises faster because yeast likes about thirty degrees. In the oven the bubbles grow once
more, the water turns to steam, and then the starch sets and the crumb stays open. Salt slows the yeast and makes the net
stronger. That is why bread without salt rises wild and tastes of little. `,
  },
  {
    name: "Ben",
    question: "Plan a day in Lisbon.",
    answer: `Begin early at the Miradouro da Graça, while the light is low and the city below is still quiet. Walk down through
Alfama, without a map, and have a coffee where the tables stand on the steps. Take the ferry to Cacilhas before lunch: ten
minutes, and the whole hill lies behind you. Eat grilled fish by the water. In the afternoon the tile museum is cool and never
crowded. Later, tram or feet to Príncipe Real, a bench under the old cedar, and dinner nearby. End at a small place with music,
and walk home; it is mostly downhill. `,
  },
  {
    name: "Chloé",
    question: "Explain recursion to me.",
    answer: `A function that calls itself sounds like a riddle, but it is a way of asking for help. Suppose you want to know how
many people stand in a queue before you. You ask the one in front: how many are before you? She asks the next one, and so on, until
somebody says: nobody. That is the base case. Then each adds one and passes the answer back. Every call waits for the one
below it, and each of them sees a smaller problem than the one above. Two rules keep it safe: there is a case that needs no
call, and every call comes closer to it. `,
  },
  {
    name: "Deniz",
    question: "A name for my cat?",
    answer: `Let us think about the cat first. A black one with a white spot could be Domino, or Comma, if she tends to lie in
curves. A grey one that follows you from room to room could be Echo. For a loud tom there is Ferry, for a shy one there is
Pocket. If he sleeps on the keyboard, call him Escape. Short names work best: two syllables, with a vowel at the end, carry through
a garden. Say it aloud ten times, in the tone you will use at four in the morning, and keep the one that still makes you
smile. `,
  },
];
