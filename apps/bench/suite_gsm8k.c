/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of the test part of GSM8K ("Training Verifiers to Solve Math Word Problems", Cobbe and
 * others, 2021; Copyright (c) 2021 OpenAI, MIT licence), every 55th. */
#include "bench/suite.h"

const char *const bench_gsm8k[] = {
    "Carla is downloading a 200 GB file. Normally she can download 2 GB/minute, but 40% of "
    "the way through the download, Windows forces a restart to install updates, which takes "
    "20 minutes. Then Carla has to restart the download from the beginning. How load does it "
    "take to download the file?",
    "If Marcy works for the same company for 40 years, she gets an annual pension of "
    "$50,000/year. Starting after 20 years, she becomes entitled to 5% of the value of the "
    "pension per year. If she quits after 30 years, what will her annual pension be?",
    "John buys 2 pairs of shoes for each of his 3 children. They cost $60 each. How much did "
    "he pay?",
    "There are four birds at the Caboose. Sally Two is three years older than Granny Red. "
    "Granny Red is two times as old as Sally Four. If Sally Four is the same age as Sally "
    "Thirtytwo, and Sally Thirtytwo is 8 years old, what's the total age of the four birds?",
    "Chad ordered a build-your-own burrito for lunch. The base burrito is $6.50. He adds "
    "extra meat for $2.00, extra cheese for $1.00, avocado for $1.00 and 2 sauces for $0.25 "
    "each. He decides to upgrade his meal for an extra $3.00 which will add chips and a "
    "drink. He has a gift card for $5.00 that he uses at check out. How much does he still "
    "owe?",
    "Maddy is buying pizza for her cousin's soccer game. There are 12 team members and 3 "
    "coaches. Each team member brings 2 guests. A pizza will serve 3 people. If each pizza "
    "costs $15, how many dollars will Maddy spend?",
    "Luke ate 2 hot dogs. Thomas ate three times more hot dogs than Luke. John ate half the "
    "amount Thomas ate. How many more hot dogs did John eat than Luke?",
    "Tim decides to cancel his cable subscription and get streaming services. He gets Netflix"
    " for $10 a month. Hulu and Disney Plus normally cost $10 a month each but he saves 20% "
    "for bundling. How much money does he save by cancelling his $60 cable package?",
    "Joey has 214 points before his turn in Scrabble. He scores 26 points. Then Marcy, who "
    "has 225 points, scores 10 points. By how many points is Joey now winning?",
    "Cherrie wants to buy Christmas gifts for her 5 friends. 2 of her friends want 5 gifts "
    "and the other 3 friends want 2 gifts for themselves. Cherrie goes ahead and buys them "
    "and decides to further surprise them by getting 10 more random gifts. How many gifts did"
    " Cherrie buy in total?",
    "A bag of buttons had 21 buttons in it. Seven buttons had two holes and the rest had four"
    " holes. How many holes were in all the buttons in the bag?",
    "The basketball team went to the steakhouse to eat dinner. The first player ate a 6-ounce"
    " steak. The second player ate beef tips, containing 8 beef tips, each an ounce in size. "
    "The third player ate a one-pound steak. And the fourth and fifth players ordered "
    "vegetarian meals. In total, how many ounces of meat were consumed by the team?",
    "Ron is fed up with the pothole in front of his house. If it doesn't get fixed, it's "
    "going to do $450 worth of damage to his car. Unfortunately, the city council refuses to "
    "fix it, and will fine Ron $120 for unauthorized road maintenance if he fixes it himself."
    " Ron will also have to buy 3 buckets of asphalt that each cost $25. How much money does "
    "Ron save by fixing the pothole?",
    "Mike decides he wants to replace his movie collection with digital versions. He has 600 "
    "movies. A third of the movies are in various series and he knows he can get those for "
    "only $6 of the cost of a normal movie by just buying the series together. 40% of the "
    "remaining movies are older movies which are $5. How much does replacing the movies cost "
    "if a normal movie costs $10?",
    "Roy has saved 40% more in money earned by chores than his brother Anthony. Anthony has "
    "saved $10.00 more than their sister Eva. Eva has saved $20.00. How much money does Roy "
    "have?",
    "Jerry counts six birds nesting in the bushes, 2/3rd of that number of birds flying "
    "overhead, and 3 groups of eight birds each feeding. How many birds does he count in "
    "total?",
    "Patty's Plumbing charges $40 to visit a house to make a repair, plus $35 per hour, or "
    "part thereof, for labor, plus parts. One job took 2.25 hours and used $60 in parts. How "
    "much did Patty charge?",
    "Walter is collecting money for charity. First he collects $500 from his neighbors. Then "
    "he collects $1500 from a fund he set up online. His lawyer offers to donate three times "
    "as much as everyone else donates. Walter is going to tell him about his neighbors and "
    "the online fund until his friend gives him $200 as well. How much is Walter's lawyer "
    "going to contribute?",
    "Romeo boards a train with 120 people. At the first stop, 20 more people board the train."
    " At the second stop, 50 people descended from the train while twice that number boarded "
    "the train. If 80 more people descended at the third station, calculate the total number "
    "of people on the train at the final stop.",
    "How many girls are in the school if 40% of a school population is made up of 240 boys?",
    "Geb is 10 less than half the age of Haley. If Haley is 26 years old, how old is Geb?",
    "Pauline visits her favorite local museum three times a year. The cost of one visit is "
    "$2. After 5 years, the cost of one visit has increased by 150%, but Pauline decided not "
    "to give up any visit and continued to go to the museum for 3 more years. How much did "
    "Pauline spend on all visits to the museum?",
    "Helen went on a trip through Germany. She booked a hotel for 3 nights and rode the bus 7"
    " times during that trip. One night at the hotel was a cost of $80, and every bus trip "
    "was 10% of the price of one night at the hotel. How much did Helen pay for the hotel and"
    " bus travels during that trip?",
};

const int64_t bench_n_gsm8k = sizeof bench_gsm8k / sizeof bench_gsm8k[0];
