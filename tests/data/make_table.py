#!/usr/bin/env python3
"""Writes a table with texts, gaps and dates, always the same: 
    tests/data/make_table.py passengers|incomes|houses|machines [ROWS] > FILE.csv
    tests/data/make_table.py machines 3000 part- 4    # part-0.csv to part-3.csv, with columns in different orders

passengers: who of a ship was saved. incomes: who earns more than a bound. houses: prices. machines: the faults of machines, of
which one may have several at a time. They are drawn, from rules with noise.
"""
import csv
import datetime
import math
import random
import sys


def passengers(chance, rows):
    yield "id,name,class,sex,age,relatives,fare,cabin,port,saved".split(",")
    for i in range(rows):
        kind = chance.choices((1, 2, 3), (25, 20, 55))[0]
        sex = chance.choices(("male", "female"), (65, 35))[0]
        age = max(0.5, round(chance.gauss(38 - 5 * kind + 5, 13), 1))
        relatives = chance.choices(range(6), (60, 20, 10, 5, 3, 2))[0]
        fare = round(math.exp(chance.gauss(5 - kind, 0.4)) * (1 + relatives / 3), 4)
        port = chance.choices(("Southampton", "Cherbourg", "Queenstown"), (72, 19, 9))[0]
        score = 3.4 * (sex == "female") - 1.3 * (kind - 1) - 0.045 * (age - 30) - 0.4 * max(0, relatives - 2) + 0.6 * (port == "Cherbourg") - 0.6
        saved = chance.random() < 1 / (1 + math.exp(-1.6 * score))
        yield [i + 1, f'Family {i % 97}, {"Mr." if sex == "male" else "Mrs."} "N{i}"', kind, sex, "" if chance.random() < 0.2 else age, relatives, fare,
               f"C{chance.randrange(200)}" if kind == 1 and chance.random() < 0.7 else "", "" if chance.random() < 0.01 else port, "yes" if saved else "no"]


def incomes(chance, rows):
    yield "age,workclass,weight,education,hours,occupation,relationship,country,gain,income".split(",")
    schools = ["9th", "HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate"]
    works = ["Clerical", "Craft", "Exec", "Farming", "Prof", "Sales", "Service", "Tech"]
    worth = dict(zip(works, (-0.3, 0, 1, -1.2, 0.8, 0.2, -1.4, 0.5)))
    countries = ["United-States"] * 90 + ["Mexico"] * 5 + ["India", "Canada", "Germany", "Cuba"] + [f"Land-{i}" for i in range(3)]
    for _ in range(rows):
        school = min(5, max(0, round(chance.gauss(2, 1.2))))
        age, hours = max(17, round(chance.gauss(39, 13))), max(5, round(chance.gauss(41, 10)))
        work, married = chance.choice(works), chance.random() < 0.5
        gain = chance.choice((3000, 7000, 15000)) if chance.random() < 0.08 else 0
        score = 1.0 * (school - 2) + worth[work] + 2.2 * married - 2.6 + 0.05 * (hours - 40) - 0.0016 * (age - 48) ** 2 + gain / 5000
        yield [age, "?" if chance.random() < 0.06 else chance.choice(("Private", "Private", "Private", "Self-emp", "Local-gov", "State-gov")),
               chance.randrange(20000, 400000), schools[school], hours, "?" if chance.random() < 0.05 else work,
               "Married" if married else chance.choice(("Own-child", "Unmarried", "Not-in-family")),
               chance.choice(countries), gain, ">50K" if chance.random() < 1 / (1 + math.exp(-1.8 * score)) else "<=50K"]


def houses(chance, rows):
    yield "sold;area;rooms;built;district;heating;garden;price".split(";")
    districts = {f"D{k:02d}": chance.gauss(0, 0.3) for k in range(12)}
    heats = {"gas": 0.0, "district": 0.05, "heat pump": 0.12, "oil": -0.1}
    first = datetime.date(2015, 1, 1)
    for _ in range(rows):
        area, day = max(25, chance.gauss(110, 40)), chance.randrange(3000)
        district, heating, garden = chance.choice(list(districts)), chance.choice(list(heats)), chance.random() < 0.4
        built = chance.randrange(1900, 2020)
        log = math.log(2500 * area) + districts[district] + heats[heating] + 0.08 * garden + 0.0001 * day + 0.002 * (built - 1960) + chance.gauss(0, 0.08)
        comma = lambda x: str(round(x, 1)).replace(".", ",")
        yield [(first + datetime.timedelta(day)).isoformat(), "NA" if chance.random() < 0.03 else comma(area), max(1, round(area / 27 + chance.gauss(0, 0.6))),
               "" if chance.random() < 0.1 else built, district, heating if chance.random() < 0.95 else "", "yes" if garden else "no", comma(math.exp(log) / 1000)]


def machines(chance, rows):
    yield "temperature,pressure,hours,maker,model,shift,overheat,leak,wear".split(",")
    models = {f"M{k:02d}": (chance.choice("ABC"), chance.gauss(0, 1.2), chance.gauss(0, 1.2)) for k in range(30)}
    sure = lambda score: int(chance.random() < 1 / (1 + math.exp(-2.5 * score)))
    for _ in range(rows):
        model = chance.choice(list(models))
        maker, heat, seal = models[model]
        temperature, pressure, hours = chance.gauss(70, 12), chance.gauss(5, 1), chance.expovariate(1 / 3000)
        overheat = sure((temperature - 78) / 8 + heat)
        leak = sure((pressure - 5.6) * 1.6 + seal + 0.8 * overheat - 0.4)
        wear = sure((hours - 4000) / 1200 + 0.5 * leak)
        yield [round(temperature, 1), "" if chance.random() < 0.04 else round(pressure, 2), round(hours), maker, model, chance.choice(("day", "night")), overheat, leak, wear]


def parts(rows, prefix, count, chance):
    """Writes the table as files of about the same size, each with an order of columns of its own."""
    header, *rows = rows
    for k in range(count):
        order = list(range(len(header)))
        if k:
            chance.shuffle(order)
        with open(f"{prefix}{k}.csv", "w", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows([r[i] for i in order] for r in [header] + rows[k * len(rows) // count:(k + 1) * len(rows) // count])


kind = sys.argv[1]
table = {"passengers": passengers, "incomes": incomes, "houses": houses, "machines": machines}[kind]
count = int(sys.argv[2]) if len(sys.argv) > 2 else {"passengers": 900, "incomes": 4000, "houses": 2000, "machines": 3000}[kind]
drawn = table(random.Random(len(kind)), count)
if len(sys.argv) > 4:
    parts(drawn, sys.argv[3], int(sys.argv[4]), random.Random(0))
else:
    csv.writer(sys.stdout, delimiter=";" if kind == "houses" else ",", lineterminator="\n").writerows(drawn)
